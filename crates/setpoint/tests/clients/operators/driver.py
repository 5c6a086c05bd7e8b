"""Waiting, free ports and operator processes, for the programs that test operators."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

# Maximum time until an expected state.
WAIT_SECONDS_MAX = 60
# Maximum run time of a program, also if a request is never answered.
RUN_SECONDS_MAX = 300
PAUSE_SECONDS = 0.1
LOG_LINES_SHOWN = 80
# Requests to loopback addresses never go through a proxy.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def limit_run_time():
    """Ends this program with an exception, which stops the operator, after the maximum time or on SIGTERM."""

    def end(number, _):
        raise SystemExit(f"ended by {signal.Signals(number).name}")

    signal.signal(signal.SIGALRM, end)
    signal.signal(signal.SIGTERM, end)
    signal.alarm(RUN_SECONDS_MAX)


def free_ports(count):
    """Returns loopback ports that are free at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def get(url):
    """Returns the body of a response as text; `None` without a successful response."""
    try:
        with OPENER.open(url, timeout=5) as response:
            return response.read().decode()
    except OSError:
        return None


def get_json(url):
    """Returns the body of a response as JSON, after further attempts if necessary."""
    return json.loads(poll(f"a response of {url}", lambda: get(url)))


def poll(state, check):
    """Polls until `check` returns a true value, and returns it."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not (result := check()):
        assert time.monotonic() < deadline, f"not in time: {state}"
        time.sleep(PAUSE_SECONDS)
    return result


def wait(state, check):
    """Polls as `poll` does, and prints the state, to show how far a failed test came."""
    result = poll(state, check)
    print(state, flush=True)
    return result


class Operator:
    """Process of an operator. As a context, it is stopped at the end, and shows its log if the test fails.

    It runs in a directory, by default that of the test, and in a session of its own, so that processes that it starts
    end with it. `ends_with` is its exit code on SIGTERM.
    """

    def __init__(self, *command, directory=None, ends_with=0):
        self.ends_with = ends_with
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            cwd=directory or os.environ["HOME"],
            start_new_session=True,
        )

    def has_ended(self):
        return self.process.poll() is not None

    def wait(self, state, check):
        """Polls until `check` returns a true value, as long as the operator runs."""

        def check_both():
            assert not self.has_ended(), f"the operator ended with {self.process.returncode}"
            return check()

        return wait(state, check_both)

    def stop(self):
        """Stops the operator as a node would: SIGTERM, and SIGKILL if it does not end. Returns its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(WAIT_SECONDS_MAX)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        code = self.stop()
        if error is not None:
            self.log.seek(0)
            print("".join(self.log.readlines()[-LOG_LINES_SHOWN:]), flush=True)
        else:
            assert code == self.ends_with, f"the operator ended with {code} on SIGTERM"
