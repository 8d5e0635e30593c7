"""A system's process, and the conversation with it."""

import json
import os
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

END_S = 30


class WorkerError(Exception):
    """The process failed, or did not say what it should in time."""


class Worker:
    """A child process that says one JSON document a line. Use it in a `with`."""

    def __init__(self, command: list, environment: dict[str, str], folder: Path):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, env=os.environ | environment, cwd=folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            # Ctrl-C is for us; leaving the `with` ends the whole group.
            start_new_session=True)
        self.late = False

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_exception) -> None:
        self._kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _overdue(self) -> None:
        self.late = True
        self._kill()

    def _within(self, seconds: float, what: str, act):
        """Acts; if that takes too long, the process is ended, which ends the waiting too."""
        timer = threading.Timer(seconds, self._overdue)
        timer.start()
        try:
            answer = act()
        finally:
            timer.cancel()
        if self.late:
            raise WorkerError(f"waited {seconds:.0f} s for {what}: {self.complaint()}")
        return answer

    def hear(self, event: str, within_s: float) -> dict:
        """The next line, which must be that event."""
        line = self._within(within_s, f"`{event}`", self.process.stdout.readline)
        if not line:
            self.process.wait()
            raise WorkerError(f"ended instead of saying `{event}`: {self.complaint()}")
        try:
            said = json.loads(line)
        except ValueError:
            said = {}
        if said.get("event") != event:
            raise WorkerError(f"said {line!r} instead of `{event}`")
        return said

    def go(self) -> None:
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def all_output(self, within_s: float) -> str:
        """Everything it prints until it ends by itself."""
        text = self._within(within_s, "its end", self.process.stdout.read)
        self.ended(within_s)
        return text.decode()

    def ended(self, within_s: float = END_S) -> None:
        """Waits for a successful end."""
        code = self._within(within_s, "its end", self.process.wait)
        if code:
            raise WorkerError(f"ended with code {code}: {self.complaint()}")

    def complaint(self, size: int = 600) -> str:
        """The end of what it wrote to its standard error."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip()[-size:] or "it said nothing"
