"""Child processes, several at once, none of which outlives the command that started them.

Leaving the context kills them; when the command is killed itself, the kernel does (see child.py).
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from perdure.programs import child, native

Work = TypeVar("Work")
Answer = TypeVar("Answer")
TIMED_OUT, STOPPED = 124, 130


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str

    @property
    def reason(self) -> str:
        """Why it failed."""
        return child.reason(self.code, self.stderr)


class Children:
    """Starts processes from any thread; leaving the context kills those that still run.

    `inherited` are descriptors that every process keeps open, such as those of locks: what they
    lock stays locked until the last process is gone.
    """

    def __init__(self, inherited: Sequence[int] = ()) -> None:
        self._inherited = tuple(inherited)
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kills what runs; whatever is started after that ends at once."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                with suppress(OSError):
                    process.kill()

    @property
    def stopped(self) -> bool:
        return self._stopped

    def run(
        self, command: list[str], timeout_seconds: float, inherited: Sequence[int] = ()
    ) -> Ended:
        """Runs a process to its end; `inherited` are descriptors for it alone."""
        with self._lock:
            if self._stopped:
                return Ended(STOPPED, "", "interrupted")
            process = subprocess.Popen(
                child.leashed(command),
                env=native.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                **child.TEXT,
                pass_fds=(*self._inherited, *inherited),
            )
            self._running.add(process)
        try:
            stdout, stderr = process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            return Ended(TIMED_OUT, stdout, f"{stderr}no result within {timeout_seconds:g} s")
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            with self._lock:
                self._running.discard(process)
        return Ended(process.returncode, stdout, stderr)

    def spread(
        self,
        items: Iterable[Work],
        workers: int,
        work: Callable[[Work], Answer],
        finish: Callable[[Work, Answer], None],
    ) -> None:
        """Calls `work` in threads, and `finish` in this one as answers come.

        An exception here, such as KeyboardInterrupt, kills the processes first: the threads that
        wait for them end, and nothing is left behind.
        """
        with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
            try:
                running: dict[Future[Answer], Work] = {pool.submit(work, i): i for i in items}
                while running:
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        finish(running.pop(future), future.result())
            except BaseException:
                self.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
