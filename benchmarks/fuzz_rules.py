"""What no input may do, and how a call is judged: used by `campaign.py`.

A call ends in one of three ways:

- *an answer*: every number that the entrance promises to be finite is, covariances are positive definite, and what
  was handed in was not changed;
- *a refusal*, by an exception of ours: one of itofit's own classes; or a ValueError, TypeError, AttributeError,
  LookupError, OSError or ImportError that a `raise` in itofit's source raises; or what Python itself says of a call
  whose arguments do not fit a signature, what the operating system says of a file, and what scikit-learn's validation
  says of the arguments of its estimators. It must say something, those of itofit's classes in fewer than 2,000
  characters and nothing that steers a terminal. Where one argument was bad and itofit's class was raised, the text
  must name an argument of the entrance;
- *a fault*, anything else: another exception, a NumPy warning (RuntimeWarning), a time limit that passed, a number
  that is not finite, a matrix that is not positive definite, an input that was changed.
"""

import faulthandler
import linecache
import signal
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

import itofit
from itofit._checks import CONTROL, message_of
from itofit.data.large.cluster import ClusterError

PACKAGE = str(Path(itofit.__file__).parent)
HERE = str(Path(__file__).parent)
OWN = (itofit.InputError, itofit.ModelFileError, ClusterError)
PLAIN = (ValueError, TypeError, AttributeError, LookupError, OSError, ImportError)
SECONDS, HARD_SECONDS = 60, 300
"""After which a call is interrupted, and after which the process is, if it cannot be."""
LONGEST_TEXT = 2_000
ALLOWED_ELSEWHERE = ("/sklearn/utils/",)
"""Parts of paths of modules whose refusals are meant for users: an estimator speaks as scikit-learn does."""


class Judged(NamedTuple):
    """How a call ended."""

    outcome: str  # answer, refusal or fault
    text: str  # what was said, or what is wrong
    result: object = None


class TooLong(BaseException):
    """A call took longer than it may; no handler of exceptions stops it."""


def judged(call, promises=None, *, names=(), seconds=SECONDS):
    """Make a call and judge how it ends.

    Parameters
    ----------
    call : callable without arguments
    promises : callable, optional
        Takes the answer, and yields texts of what is wrong with it.
    names : sequence of str
        Words of which the text of a refusal must hold one; none are needed if it is empty.
    """
    answered = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with time_limit(seconds):
                result, answered = call(), True
                faults = list(promises(result)) if promises is not None else []
        except TooLong:
            return Judged("fault", f"took longer than {seconds} s")
        except Exception as error:
            fault = _fault_of(error, names, answered)
            return Judged("fault", fault) if fault else Judged("refusal", f"{type(error).__name__}: {error}")
    foreign = [each for each in caught if issubclass(each.category, RuntimeWarning)]
    faults += [f"warning: {each.message} ({_place(each.filename, each.lineno)})" for each in foreign[:1]]
    return Judged("fault", "; ".join(faults)) if faults else Judged("answer", "", result)


@contextmanager
def time_limit(seconds):
    """Interrupt what takes longer; end the process if it cannot be interrupted."""

    def stop(number, frame):
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    faulthandler.dump_traceback_later(HARD_SECONDS + seconds, exit=True)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def _fault_of(error, names, answered):
    """What is wrong with an exception, which may be one of using an answer; empty if it is ours."""
    frames = _frames(error)
    where, said = frames[-1], str(error)
    described = f"{type(error).__name__}: {said[:200]} at {_place(*where)}, from {_place(*_last_of_ours(frames))}"
    if not is_ours(error, frames) or (answered and not isinstance(error, OWN)):
        return described
    if not said.strip() or (isinstance(error, OWN) and len(said) > LONGEST_TEXT):
        return f"a text of {len(said):,} characters: {described}"
    if isinstance(error, OWN) and CONTROL.search(said):
        return f"characters that steer a terminal: {described}"
    spoken = str(message_of(error)).lower()
    if names and isinstance(error, OWN) and not any(name.lower() in spoken for name in names):
        return f"names no argument: {described}"
    return ""


def is_ours(error, frames=None):
    """Whether an exception is one that itofit means to raise."""
    if isinstance(error, OWN):
        return True
    frames = frames or _frames(error)
    file, line = frames[-1]
    if not isinstance(error, PLAIN):
        return False
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        return True
    if isinstance(error, TypeError) and file.startswith(HERE):  # the call itself does not fit
        return True
    if any(part in each for part in ALLOWED_ELSEWHERE for each, _ in frames):
        return True
    return file.startswith(PACKAGE) and linecache.getline(file, line).lstrip().startswith("raise ")


def _frames(error):
    """File and line of each frame, the innermost last."""
    frames, traceback = [], error.__traceback__
    while traceback is not None:
        frames.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return frames


def _last_of_ours(frames):
    ours = [frame for frame in frames if frame[0].startswith(PACKAGE)]
    return ours[-1] if ours else frames[0]


def _place(file, line):
    for root in (PACKAGE, HERE, sys.prefix):
        file = file.removeprefix(f"{root}/")
    return f"{file}:{line}"


# Promises


def not_finite(what, *arrays):
    """A text if numbers are not finite."""
    if not all(np.isfinite(np.asarray(array)).all() for array in arrays):
        yield f"{what} not finite"


def not_positive_definite(what, matrices):
    """A text if some of the matrices (n, d, d) are not, in units of their own diagonals."""
    yield from not_finite(what, matrices)
    if len(matrices) == 0 or not np.isfinite(matrices).all():
        return
    with np.errstate(all="ignore"):
        unit = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
        scaled = matrices / unit[:, :, None] / unit[:, None, :]
    if not (unit > 0).all() or not np.isfinite(scaled).all() or np.linalg.eigvalsh(scaled)[:, 0].min() <= 0:
        yield f"{what} not positive definite"


def unfit_transitions(data):
    """Texts of what is wrong with transitions in memory."""
    yield from not_finite("inputs", data.inputs)
    yield from not_finite("increments", data.increments)
    if len(data) == 0 or not (data.h > 0).all() or not np.isfinite(data.h).all():
        yield "no transitions, or durations that are not positive"


def unfit_model(sde, x):
    """Texts of what is wrong with an equation at points x."""
    yield from not_finite("drift", sde.drift(x))
    yield from not_positive_definite("covariance", sde.covariance(x))
    if not sde.summary():
        yield "no summary"
