"""What a danger rule or a rule of the tool policy says, in words for a reviewer."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

RULE_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "B102": "runs a text as Python (exec)",
        "B103": "changes permissions or the owner of a file",
        "B301": "loads a pickle, which can run anything",
        "B302": "loads marshalled code",
        "B307": "runs a text as Python (eval)",
        "B310": "opens an address on the network",
        "B312": "uses telnet",
        "B321": "uses FTP",
        "B506": "loads YAML in a way that can run code",
        "B601": "runs commands on another machine",
        "B602": "starts a process through a shell",
        "B603": "starts a process",
        "B605": "runs a shell command",
        "B606": "replaces this process by another program, or starts one",
        "B614": "loads a model file that can run code",
        "py-compile": "compiles or runs other text or files as a program",
        "py-computed-name": "reaches a dangerous function by a name that is computed",
        "py-credentials": "reads files or variables that hold secrets",
        "py-file-removal": "removes or moves files",
        "py-hidden-classes": "reaches into Python's internals to find hidden functions",
        "py-native": "calls native code or maps memory",
        "py-network": "uses the network",
        "py-process": "kills or forks processes",
        "py-unreadable": "is too large or tangled to be looked through",
        "py-write-outside": "writes outside its own folder",
        "shell-accounts": "changes accounts or passwords",
        "shell-container": "starts a container with rights over this machine",
        "shell-cover-tracks": "removes logs or history",
        "shell-credentials": "reads files that hold secrets",
        "shell-device-write": "writes to a device",
        "shell-fill-disk": "writes without end",
        "shell-fork-bomb": "starts processes without bound",
        "shell-format": "formats a disk",
        "shell-git-destroy": "destroys the history or work of a repository",
        "shell-kill-all": "kills processes that are not its own",
        "shell-many-forks": "leaves hundreds of processes behind",
        "shell-permissions": "makes files writable for all or set-uid",
        "shell-persist": "installs something that starts again by itself",
        "shell-power": "shuts down or restarts the machine",
        "shell-protection-off": "switches a protection off",
        "shell-remote-shell": "opens a shell to another machine",
        "shell-remove": "removes files recursively or by force",
        "shell-run-download": "runs what it downloads",
        "shell-run-hidden": "runs a text that is encoded or hidden",
        "shell-send": "sends secrets or files to another machine",
        "shell-unreadable": "is too large or tangled to be looked through",
        "shell-write-system": "writes to files of the system",
        "sql-alter": "changes the structure of a table",
        "sql-command": "runs a command of the operating system from the database",
        "sql-credentials": "reads passwords of the database",
        "sql-delete-all": "deletes every row of a table",
        "sql-drop": "drops a table or another object",
        "sql-file": "reads or writes files through the database",
        "sql-grant": "changes rights in the database",
        "sql-server": "stops the server or its connections",
        "sql-truncate": "empties a table",
        "sql-unreadable": "is too large or tangled to be looked through",
        "sql-update-all": "changes every row of a table",
    }
)

_POLICY: Final = "policy:"


def rule_in_words(rule: str) -> str:
    """What the rule objects to; a rule that is not known here is named as it is."""
    if rule.startswith(_POLICY):
        return f"is covered by the rule {rule.removeprefix(_POLICY)} of the tool policy"
    return RULE_WORDS.get(rule, f"breaks the rule {rule}")
