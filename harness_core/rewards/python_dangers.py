"""Names in Python's libraries that can do harm, each with the rule that it breaks."""

import re
from collections.abc import Mapping
from typing import Final


def _table(**rules: str) -> dict[str, str]:
    return {name: rule.replace("_", "-") for rule, names in rules.items() for name in names.split()}


REFERENCES: Final[Mapping[str, str]] = _table(
    B103="""os.chmod os.fchmod os.lchmod os.chown os.fchown os.lchown shutil.chown
        pathlib.Path().chmod pathlib.Path().lchmod""",
    B301="""pickle.load pickle.loads pickle.Unpickler cPickle.load cPickle.loads dill.load
        dill.loads cloudpickle.load cloudpickle.loads shelve.open jsonpickle.decode joblib.load
        pandas.read_pickle""",
    B302="marshal.load marshal.loads",
    B310="""urllib.request.urlopen urllib.request.urlretrieve urllib.request.build_opener
        urllib.urlopen urllib.urlretrieve urllib2.urlopen""",
    B506="yaml.unsafe_load yaml.unsafe_load_all yaml.full_load",
    B602="""asyncio.create_subprocess_shell subprocess.create_subprocess_shell
        asyncio.get_event_loop().subprocess_shell asyncio.new_event_loop().subprocess_shell
        asyncio.get_running_loop().subprocess_shell""",
    B603="""asyncio.create_subprocess_exec subprocess.create_subprocess_exec multiprocessing.Process
        multiprocessing.Pool multiprocessing.get_context multiprocessing.pool.Pool
        asyncio.get_event_loop().subprocess_exec asyncio.get_running_loop().subprocess_exec
        concurrent.futures.ProcessPoolExecutor concurrent.futures.process.ProcessPoolExecutor""",
    B605="""os.system os.popen os.popen2 os.popen3 os.popen4 os.startfile commands.getoutput
        commands.getstatusoutput popen2.popen2 popen2.popen3 platform.popen pty.spawn
        subprocess.getoutput subprocess.getstatusoutput pexpect.spawn pexpect.spawnu pexpect.run
        pexpect.runu invoke.run""",
    B606="""os.execl os.execle os.execlp os.execlpe os.execv os.execve os.execvp os.execvpe
        os.spawnl os.spawnle os.spawnlp os.spawnlpe os.spawnv os.spawnve os.spawnvp os.spawnvpe
        os.posix_spawn os.posix_spawnp""",
    B614="torch.load",
    py_compile="""types.FunctionType types.CodeType runpy.run_path runpy.run_module code.interact
        code.InteractiveInterpreter code.InteractiveConsole imp.load_source imp.load_module
        imp.load_compiled importlib.util.spec_from_file_location
        importlib.machinery.SourceFileLoader importlib.machinery.SourcelessFileLoader""",
    py_file_removal="""os.remove os.unlink os.rmdir os.removedirs os.truncate os.ftruncate
        shutil.rmtree shutil.move os.replace os.rename os.renames pathlib.Path().unlink
        pathlib.Path().rmdir pathlib.Path().rename pathlib.Path().replace""",
    py_native="mmap.mmap",
    py_network="""asyncio.open_connection asyncio.start_server asyncio.open_unix_connection
        webbrowser.open webbrowser.open_new webbrowser.open_new_tab webbrowser.get""",
    py_process="""os.kill os.killpg os.fork os.forkpty os.abort os.setuid os.setgid os.chroot
        signal.pthread_kill signal.pidfd_send_signal""",
    py_hidden_classes="object.__subclasses__",
)
MODULES: Final[Mapping[str, str]] = _table(
    B310="http.client",
    B312="telnetlib",
    B321="ftplib",
    B601="paramiko fabric",
    B606="_posixsubprocess _winapi",
    py_native="ctypes cffi",
    py_network="""socket socketserver requests urllib3 httpx aiohttp smtplib poplib imaplib nntplib
        xmlrpc.client http.server websockets websocket pycurl""",
)
HARMLESS: Final = re.compile(
    r"\.(exceptions|[A-Za-z]*([Ee]rror|Exception|[Tt]imeout))$|^ctypes\.c_"
    r"|^socket\.((AF|SOCK|IPPROTO|SO|SOL|INADDR|SHUT)_|inet_\w+$|[hn]to[hn][sl]$)"
)
HIDDEN_NAMES: Final = frozenset({"__subclasses__", "__globals__", "__code__", "f_globals"})
HIDDEN_FIELD: Final = re.compile(r"\{[^{}]*\.(__subclasses__|__globals__|__code__|f_globals)\b")
SHELL_CALLS: Final = frozenset(
    f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen")
)
RUN_TEXT: Final[Mapping[str, str]] = {
    "eval": "B307",
    "exec": "B102",
    "execfile": "B102",
    "compile": "py-compile",
}
"""What runs a text, whatever else it is for."""
RUN_TEXT_OR_FUNCTION: Final = frozenset(
    {"timeit.timeit", "timeit.repeat", "timeit.Timer", "cProfile.run", "profile.run", "pdb.run"}
)


def rule_of_module(path: str) -> str | None:
    """The rule of the module that a name belongs to, if all of the module can do harm."""
    if path.endswith("()") or HARMLESS.search(path):
        return None
    parts = path.split(".")
    for length in (1, 2):
        if len(parts) > length and ".".join(parts[:length]) in MODULES:
            return MODULES[".".join(parts[:length])]
    return None
