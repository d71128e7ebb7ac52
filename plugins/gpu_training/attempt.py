"""A small library for training programs: it keeps the contract in ten lines (:class:`Attempt`).

Standard library only, and of this package only `contract.py` and `checkpoints.py`: the three files go into training
images. Importing them does nothing.
"""

from __future__ import annotations

import math
import os
import re
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from gpu_training.checkpoints import Checkpoint, Checkpoints, DirectoryStore, print_warning
from gpu_training.contract import (
    DEFAULT_GRACE_SECONDS,
    RESULT_PREFIX,
    TERMINATION_MESSAGE_PATH,
    ContractError,
    Environment,
    ExitCode,
    Progress,
    Result,
    ResultStatus,
    Variable,
    as_count,
    as_number,
    read_environment,
    render_progress,
    render_result,
)

PROGRESS_SECONDS = 1.0
"""Seconds between two progress lines that nothing but time calls for."""


class Failure(Exception):
    """Why a training ends: one line for a person, and the exit code of it."""

    def __init__(self, text: str, exit_code: ExitCode = ExitCode.OTHER) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Interrupted(Failure):
    """SIGTERM arrived."""

    def __init__(self, text: str) -> None:
        super().__init__(text, ExitCode.INTERRUPTED)


_CUDA_OUT_OF_MEMORY = re.compile(
    r"cudaErrorMemoryAllocation|cuda[^\n]*out of memory|CUDA_ERROR_OUT_OF_MEMORY"
    # XGBoost, before its figures of device memory (https://github.com/dmlc/xgboost/blob/master/src/common/device_helpers.cu).
    r"|Memory allocation error on worker \d+",
    re.IGNORECASE,
)
_COMMUNICATION_TIMEOUT = re.compile(
    r"(NCCL|gloo|collective|process group|rendezvous)[^\n]*(timed? ?out|timeout)", re.IGNORECASE
)


def exit_code_of(error: BaseException) -> int:
    """Give the exit code of an error that ends a training: that of a :class:`Failure`, or what its text tells.

    Memory of the host that runs out (MemoryError, `std::bad_alloc` alone) is OTHER: more GPU memory would not cure it.
    """
    if isinstance(error, SystemExit):
        # Of the number eight bits are left, and 256 would be success.
        return error.code & 0xFF or ExitCode.OTHER if isinstance(error.code, int) else ExitCode.OTHER
    if isinstance(error, Failure):
        return error.exit_code
    if isinstance(error, ContractError):
        return ExitCode.BAD_CONFIGURATION
    if _CUDA_OUT_OF_MEMORY.search(str(error)):
        return ExitCode.CUDA_OUT_OF_MEMORY
    return ExitCode.COMMUNICATION_TIMEOUT if _COMMUNICATION_TIMEOUT.search(str(error)) else ExitCode.OTHER


def is_foreseen(error: BaseException) -> bool:
    """Tell whether an error says in its own words why the training ends, so that no trace is needed."""
    return isinstance(error, (ContractError, Failure))


def summary_of(error: BaseException) -> str:
    """Give one line that tells a person what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if is_foreseen(error) and lines:
        return " ".join(lines)
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


class StopNotice:
    """SIGTERM: the platform takes the machine, or the pod, and kills after the grace period.

    Noticed at once, even while the main thread waits in native code, such as a collective operation. A process forked
    from this one dies of SIGTERM as if nothing were installed here: loaders of data end their workers so.

    :param grace_seconds: between SIGTERM and SIGKILL.
    """

    def __init__(self, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        self.grace_seconds = grace_seconds
        self._reader, self._writer = os.pipe()
        for end in (self._reader, self._writer):
            os.set_blocking(end, False)
        self._arrived_at: float | None = None
        self._arrival, self._closing = threading.Event(), threading.Event()
        self._before: Any = signal.SIG_DFL
        self._forking = threading.local()

    def install(self, *, at_deadline: Callable[[], object] | None = None) -> None:
        """Begin. As early as can be: a container's first process has no default action for SIGTERM, so that the kernel
        drops one that arrives before (https://man7.org/linux/man-pages/man7/pid_namespaces.7.html).

        :param at_deadline: called in a thread when SIGKILL is near; it should end the process.
        :raises ContractError: not called in the main thread.
        """
        try:
            self._before = signal.signal(signal.SIGTERM, self._remember)
        except ValueError:
            raise ContractError("SIGTERM can be waited for by the main thread only: begin the attempt there") from None
        # The interpreter's own handler writes there at once; ours runs when the main thread comes back to Python.
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        os.register_at_fork(before=self._hold, after_in_parent=self._release, after_in_child=self._forget)
        threading.Thread(target=self._watch, args=(at_deadline,), name="stop-notice", daemon=True).start()

    def close(self) -> None:
        """End it: SIGTERM does again what it did before."""
        self._closing.set()
        with suppress(ValueError):  # not the main thread's
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, self._before)
        with suppress(BlockingIOError):
            os.write(self._writer, b"\0")

    def _hold(self) -> None:
        # A child that gets SIGTERM before it has forgotten this would write into its parent's pipe.
        self._forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _release(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._forking.mask)

    def _forget(self) -> None:
        if not self._closing.is_set():
            self._closing.set()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._release()

    def _remember(self, signum: int, frame: FrameType | None) -> None:
        # Neither locks nor buffered output here: the main thread may hold either just now.
        if self._arrived_at is None:
            self._arrived_at = time.monotonic()
        with suppress(BlockingIOError):
            os.write(self._writer, bytes([signum]))

    def _watch(self, at_deadline: Callable[[], object] | None) -> None:
        while not self._closing.is_set():
            select.select([self._reader], [], [])
            # Bytes of other signals come too.
            if signal.SIGTERM in os.read(self._reader, 4096):
                break
        if self._closing.is_set():
            return
        if self._arrived_at is None:
            self._arrived_at = time.monotonic()
        self._arrival.set()
        _write_unless_full(
            2, "SIGTERM: the step in progress is finished, then a last checkpoint is taken if there is time"
        )
        if not self._closing.wait(self.seconds_left) and at_deadline is not None:
            at_deadline()

    @property
    def requested(self) -> bool:
        """Whether SIGTERM has arrived."""
        return self._arrived_at is not None

    @property
    def seconds_left(self) -> float:
        """Seconds until the process has to have left, a little before SIGKILL; infinite before SIGTERM."""
        if self._arrived_at is None:
            return math.inf
        spare = min(1.0, self.grace_seconds / 10)
        return max(0.0, self._arrived_at + self.grace_seconds - spare - time.monotonic())

    def wait(self, seconds: float) -> bool:
        """Wait, cut short by SIGTERM; tells whether it has arrived."""
        return self._arrival.wait(max(0.0, seconds)) or self.requested

    def check(self, doing: str) -> None:
        """Raise Interrupted when SIGTERM has arrived."""
        if self.requested:
            raise Interrupted(f"interrupted by SIGTERM while {doing}")


class ProgressReport:
    """Prints progress lines: at the start, after the first and the last step, and else about one a second.

    The line of the start says with `first_step` where this attempt begins, before any GPU time is spent on it.
    """

    def __init__(
        self,
        *,
        first_step: int,
        total: int = 0,
        checkpoint_step: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first, self._total, self._clock = first_step, total, clock
        self._started, self._printed = clock(), -math.inf
        self._print(first_step - 1, None, None, checkpoint_step)

    def step_done(self, step: int, *, loss: float | None, checkpoint_step: int | None, at_checkpoint: bool) -> None:
        """Tell that a step is done; prints when it is time to, and always at a checkpoint."""
        now = self._clock()
        if now - self._printed < PROGRESS_SECONDS and not at_checkpoint and step != self._total:
            return
        self._printed = now
        elapsed = now - self._started
        throughput = (step - self._first + 1) / elapsed if elapsed > 0 else None
        self._print(step, loss, throughput, checkpoint_step)

    def _print(self, step: int, loss: float | None, throughput: float | None, checkpoint_step: int | None) -> None:
        progress = Progress(
            step=step,
            total=self._total,
            loss=loss,
            throughput=float(f"{throughput:.4g}") if throughput is not None else None,
            checkpoint_step=checkpoint_step,
            first_step=self._first,
        )
        _print_line(render_progress(progress))


def _print_line(line: str) -> None:
    # One write, so that lines of several processes of a container do not mix. A closed pipe fails no training.
    with suppress(OSError, ValueError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def leave_result(
    result: Result,
    environ: Mapping[str, str],
    *,
    print_line: Callable[[str], object] = _print_line,
    say: Callable[[str], object] = print_warning,
) -> None:
    """Write the result document where the operator looks for it, and as a line to standard output.

    A place that can not be written is a warning: the exit code and the log still tell what happened.
    """
    text = render_result(result)
    named = environ.get(Variable.TERMINATION_LOG)
    path = named or TERMINATION_MESSAGE_PATH
    # Kubernetes makes its file beforehand. Without it this is no container, and nothing belongs into /dev.
    if not named and not os.path.exists(path):
        say(f"{path} does not exist: the result document is left nowhere but in this log")
    else:
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            say(f"{path}: the result document was not written: {error}")
    print_line(RESULT_PREFIX + text)


class Attempt:
    """One run of a training program, from its variables to its exit code::

        with Attempt() as attempt:
            saved = attempt.resume()
            model = load(saved.files["model"]) if saved else new_model()
            for step in attempt.steps(total=200, checkpoint_every=20):
                attempt.step_done(step, loss=model.learn())
                if attempt.checkpoint_due():
                    attempt.save({"model": model.dump()})
            # An attempt that was interrupted while it published has no step left to do.
            attempt.trained(metrics={"loss": model.evaluate()}, model_uri=publish(model))

    SIGTERM is noticed from its beginning on: begin it before slow imports. The block's end leaves the result document
    and, unless the training is done, ends the process with the exit code of the error, 85 after SIGTERM. A process that
    hangs then is ended so a little before SIGKILL. Never is it 0 unless :meth:`trained` was said: Kubernetes would call
    the Job Complete.

    What the result says may be set at any time before: `metrics`, `model_uri`, `device`, `data_version`, `data_digest`,
    `mlflow_run_id`.

    :param environ: the environment; None: the process's.
    :param checkpoints: where they are kept; None: the folder that Variable.CHECKPOINT_URI names.
    :param say: takes warnings.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str] | None = None,
        checkpoints: Checkpoints[Any] | None = None,
        say: Callable[[str], object] = print_warning,
    ) -> None:
        self.environ = os.environ if environ is None else environ
        self.environment = Environment()
        self.notice = StopNotice()
        self.checkpoints = checkpoints
        self.metrics: Mapping[str, float] = {}
        self.model_uri: str | None = None
        self.device: str | None = None
        self.data_version: str | None = None
        self.data_digest: str | None = None
        self.mlflow_run_id: str | None = None
        self.first_step: int | None = None
        self.last_step: int | None = None
        self.checkpoint_step: int | None = None
        self._say = say
        self._total, self._checkpoint_every = 0, 0
        self._step = 0
        self._loss: float | None = None
        self._report: ProgressReport | None = None
        self._save_seconds: float | None = None
        self._trained: Result | None = None
        self._has_said_too_late = self._has_looked = self._takes_checkpoints = False
        self._code: int | None = None
        self._ending = threading.Lock()

    def __enter__(self) -> Self:
        try:
            self.begin()
        except Exception as error:
            if threading.current_thread() is not threading.main_thread():
                # SystemExit would end this thread alone, in silence.
                self.end(error)
                raise
            self.__exit__(type(error), error, error.__traceback__)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None and not isinstance(error, SystemExit) and not is_foreseen(error):
            traceback.print_exception(error)
        if code := self.end(error):
            raise SystemExit(code) from None

    def begin(self) -> None:
        """Wait for SIGTERM from now on, and read the environment.

        :raises ContractError: a variable is not as the contract says.
        """
        self.notice.install(at_deadline=self._leave_at_deadline)
        self.environment = read_environment(self.environ)
        self.notice.grace_seconds = self.environment.grace_seconds

    # Checkpoints

    def resume(self, *, last_step: int | None = None) -> Checkpoint[Any] | None:
        """Give the newest whole checkpoint of any pod of this work, and go on after it; None to begin at step 1."""
        self._open_checkpoints()
        found = self.checkpoints.newest(last_step=last_step) if self.checkpoints is not None else None
        self.resumed_from(found.step if found is not None else 0)
        return found

    def resumed_from(self, step: int) -> None:
        """Tell where the training goes on, where the program finds checkpoints itself.

        :param step: that of the checkpoint; 0: there is none.
        """
        self.checkpoint_step = step or None
        self.first_step, self.last_step, self._step = step + 1, step, step

    def _open_checkpoints(self) -> None:
        uri = self.environment.checkpoint_uri
        if self.checkpoints is not None or self._has_looked:
            return
        self._has_looked = True
        if uri is None:
            self._say(f"{Variable.CHECKPOINT_URI} is absent: an interruption loses the whole training")
            return
        writer = self.environment.pod_uid or f"no-pod-{os.urandom(6).hex()}"
        fingerprint = self.environment.fingerprint or ""
        self.checkpoints = Checkpoints(DirectoryStore(uri), writer=writer, fingerprint=fingerprint, say=self._say)

    def checkpoint_due(self) -> bool:
        """Tell whether the step just done wants a checkpoint: each `checkpoint_every`, the last one, and after SIGTERM.

        After SIGTERM only when it can be expected to be whole in the time left, by how long the last one took.
        """
        self._takes_checkpoints = True
        return self._is_due()

    def _is_due(self) -> bool:
        step = self._step
        if self.checkpoints is None or step in (0, self.checkpoint_step):
            return False
        if self.should_stop():
            return self._has_time_to_save(step)
        return step == self._total or (self._checkpoint_every > 0 and step % self._checkpoint_every == 0)

    def _has_time_to_save(self, step: int) -> bool:
        left, needed = self.notice.seconds_left, self._save_seconds
        if needed is None or needed <= left:
            return True
        if not self._has_said_too_late:
            self._has_said_too_late = True
            self._say(
                f"no checkpoint of step {step} is taken: {left:.1f} s are left before SIGKILL, and the last one took "
                f"{needed:.1f} s; the newest one is of step {self.checkpoint_step or 0}"
            )
        return False

    def save(self, files: Mapping[str, bytes] | Callable[[Path], object]) -> bool:
        """Write a checkpoint of the step just done; tells whether it is there. A store that refuses is a warning.

        :param files: contents by name, or a function that writes files into the folder that it is given.
        """
        step = self._step
        if self.checkpoints is None:
            return False
        self.last_step = step
        began = time.monotonic()
        is_there = self.checkpoints.save(step, files)
        if is_there:
            self._save_seconds, self.checkpoint_step = time.monotonic() - began, step
        self._tell(at_checkpoint=True)
        if is_there and not self.should_stop():
            self.checkpoints.prune()
        return is_there

    # Steps

    def steps(self, total: int, *, checkpoint_every: int = 0) -> Iterator[int]:
        """Give the steps that are left, from the first to `total`.

        :param checkpoint_every: steps between two checkpoints; 0: only the last.
        :raises Interrupted: SIGTERM arrived during the step before.
        """
        self.begin_steps(total, checkpoint_every=checkpoint_every)
        for step in range(self.first_step or 1, total + 1):
            self.stop_if_asked()
            self._step = step
            yield step
            if self.last_step != step:
                self.step_done(step)

    def begin_steps(self, total: int = 0, *, checkpoint_every: int = 0) -> None:
        """Print the first progress line; for programs whose loop is not their own, instead of :meth:`steps`.

        :param total: steps of the whole training; 0: unknown.
        :raises ContractError: the training has gone beyond it already.
        """
        # A program that begins anew, or finds checkpoints itself, has not called resume().
        self._open_checkpoints()
        self._total, self._checkpoint_every = total, checkpoint_every
        if self.first_step is None:
            self.first_step, self.last_step = 1, 0
        if 0 < total < self.first_step - 1:
            raise ContractError(
                f"total={total}: the checkpoint that the training goes on from is of step {self.first_step - 1}: name "
                "another folder of checkpoints, or pass over later ones with resume(last_step=)"
            )
        self.data_version = self.data_version or self.environment.data_version
        self.data_digest = self.data_digest or self.environment.data_digest
        self._report = ProgressReport(first_step=self.first_step, total=total, checkpoint_step=self.checkpoint_step)

    def step_done(self, step: int, *, loss: float | None = None) -> None:
        """Tell that a step is done. Its progress line is printed about once a second, and at checkpoints."""
        self.last_step = self._step = step
        self._loss = loss
        # The line of a checkpoint is printed when that is there.
        if not (self._takes_checkpoints and self._is_due()):
            self._tell(at_checkpoint=False)

    def _tell(self, *, at_checkpoint: bool) -> None:
        if self._report is not None and self.last_step is not None:
            self._report.step_done(
                self.last_step, loss=self._loss, checkpoint_step=self.checkpoint_step, at_checkpoint=at_checkpoint
            )

    def should_stop(self, *, wait: float = 0) -> bool:
        """Tell whether SIGTERM has arrived.

        :param wait: seconds for which to wait for it.
        """
        return self.notice.wait(wait) if wait > 0 else self.notice.requested

    def stop_if_asked(self) -> None:
        """Raise Interrupted when SIGTERM has arrived."""
        if self.should_stop():
            raise self._interrupted()

    def _interrupted(self) -> Interrupted:
        of = f" of {self._total}" if self._total else ""
        return Interrupted(
            f"interrupted by SIGTERM after step {self.last_step or 0}{of}; "
            f"the last checkpoint is of step {self.checkpoint_step or 0}"
        )

    # The end

    def trained(self, *, metrics: Mapping[str, float] | None = None, model_uri: str | None = None) -> None:
        """Tell that the training is done, and with what result. Nothing else makes the exit code 0.

        :raises Interrupted: SIGTERM arrived before the last step, so that this is not the model that was asked for.
        :raises ContractError: a metric is not finite, or the document is too large.
        """
        if self.should_stop() and not 0 < self._total <= (self.last_step or 0):
            raise self._interrupted()
        self.metrics = metrics if metrics is not None else self.metrics
        self.model_uri = model_uri or self.model_uri
        result = self.result(error=None)
        render_result(result)
        self._trained = result

    def result(self, *, error: str | None) -> Result:
        """Give the result document as things stand; it says trained when there is no error.

        Of a failure metrics that are no numbers are left out: it is to be told, whatever the program has set.
        """
        return Result(
            status=ResultStatus.TRAINED if error is None else ResultStatus.FAILED,
            data_version=self.data_version,
            data_digest=self.data_digest,
            mlflow_run_id=self.mlflow_run_id or self.environment.mlflow_run_id,
            model_uri=self.model_uri,
            metrics={
                name: value for name, value in self.metrics.items() if error is None or as_number(value) is not None
            },
            first_step=self.first_step,
            last_step=self.last_step,
            checkpoint_step=self.checkpoint_step,
            device=self.device,
            pod_uid=self.environment.pod_uid,
            error=error,
        )

    def end(self, error: BaseException | None = None) -> int:
        """Leave the result document and give the exit code; the second time only the code."""
        with self._ending:
            if self._code is None:
                self._code, text = self._judge(error)
                # First the document: standard error may be full, and nobody reads it any more.
                self._leave(text, _print_line)
                if text is not None:
                    name = ExitCode(self._code).name if self._code in set(ExitCode) else "own"
                    self._say(f"{text} (exit code {self._code}, {name})")
                elif not self.should_stop():
                    # What follows is no training: SIGTERM ends it as it would any program.
                    self.notice.close()
            return self._code

    def _judge(self, error: BaseException | None) -> tuple[int, str | None]:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            if self._trained is not None:
                return ExitCode.TRAINED, None
            if self.should_stop():
                return ExitCode.INTERRUPTED, str(self._interrupted())
            return (
                ExitCode.OTHER,
                "the program ended without saying that it has trained: Attempt.trained was not called",
            )
        code, text = exit_code_of(error), summary_of(error)
        if self.should_stop() and code in (ExitCode.OTHER, ExitCode.COMMUNICATION_TIMEOUT):
            # Ranks that end before this one, or what they shared: a consequence, and no failure of the program.
            return ExitCode.INTERRUPTED, f"{self._interrupted()}; then {text}"
        return code, text

    def _leave(self, error: str | None, print_line: Callable[[str], object]) -> None:
        try:
            result = self.result(error=error) if error is not None or self._trained is None else self._trained
            leave_result(result, self.environ, print_line=print_line, say=self._say)
        except Exception:  # of whatever kind: the program may have set anything there
            failed = Result(
                status=ResultStatus.FAILED,
                first_step=as_count(self.first_step),
                last_step=as_count(self.last_step),
                checkpoint_step=as_count(self.checkpoint_step),
                pod_uid=self.environment.pod_uid,
                error=error,
            )
            leave_result(failed, self.environ, print_line=print_line, say=self._say)

    def _leave_at_deadline(self) -> None:
        # The main thread hangs, and may hold any lock but the one that only the end takes.
        try:
            if self._ending.acquire(timeout=0.1) and self._code is None:
                self._say = lambda text: None
                text = f"{self._interrupted()}; it hung until the end of the grace period"
                is_trained = self._trained is not None
                self._code = ExitCode.TRAINED if is_trained else ExitCode.INTERRUPTED
                self._leave(None if is_trained else text, lambda line: _write_unless_full(1, f"\n{line}"))
        finally:
            os._exit(self._code if self._code is not None else ExitCode.INTERRUPTED)


def _write_unless_full(descriptor: int, line: str) -> None:
    """Print where the stream's own lock may be held, and nobody may read it: what waits here is killed."""
    with suppress(OSError, ValueError):
        if select.select([], [descriptor], [], 0)[1]:
            os.write(descriptor, f"{line}\n".encode(errors="replace"))
