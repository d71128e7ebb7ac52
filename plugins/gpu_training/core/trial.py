"""A dry run of the Job and of a pod made from its template: what the API server would say, with nothing created."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpu_training.core.admission_words import Refusal, parse_refusal
from gpu_training.core.check_up import Check, State
from gpu_training.core.pending_cause import Cause


class TrialEnd(StrEnum):
    ACCEPTED = "accepted"
    REFUSED = "refused"
    """For what the documents hold, or what surrounds them."""
    NOT_ALLOWED = "not_allowed"
    """The account may not even try."""
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How a dry run ended.

    :param of_pod: whether a pod was tried, too; quota, LimitRange and Pod Security look at pods only.
    :param said: the server's words where it did not accept.
    :param remarks: its warnings where it did.
    """

    end: TrialEnd
    of_pod: bool = False
    said: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def accepts_pod(self) -> bool:
        return self.end is TrialEnd.ACCEPTED and self.of_pod

    @property
    def refusal(self) -> Refusal | None:
        """What the refusal means; None when there was none."""
        return parse_refusal(self.said) if self.end is TrialEnd.REFUSED else None

    @property
    def cause(self) -> Cause | None:
        refusal = self.refusal
        return refusal.cause if refusal is not None else None


def check_trial(trial: Trial, *, subject: str) -> Check:
    """Tell what the API server says of the Job and its pod."""

    def check(state: State, said: str, remedy: str = "") -> Check:
        return Check(name="dry-run", subject=subject, state=state, said=said, remedy=remedy)

    match trial.end:
        case TrialEnd.ACCEPTED if trial.remarks:
            said = f"the API server accepts the Job, and warns: {'; '.join(trial.remarks)}"
            return check(State.WARNING, said, "change the model's file or the namespace as the warning says")
        case TrialEnd.ACCEPTED if not trial.of_pod:
            return check(State.UNKNOWN, "the API server accepts the Job; a pod of it was not tried", _LET_IT_TRY)
        case TrialEnd.ACCEPTED:
            return check(State.OK, "the API server accepts the Job and a pod of it")
        case TrialEnd.REFUSED:
            refusal = trial.refusal
            remedy = refusal.remedy if refusal is not None else ""
            return check(State.BROKEN, f"the API server refuses: {trial.said}", remedy or "change what it refuses")
        case TrialEnd.NOT_ALLOWED:
            return check(State.UNKNOWN, f"the account may not try: {trial.said}", _LET_IT_TRY)
    return check(State.UNKNOWN, f"there was no answer: {trial.said}", "run the check-up again")


_LET_IT_TRY = "let the account create Jobs and pods, as include/manifests does: a dry run needs that"
