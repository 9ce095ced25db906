"""The states of a job in words."""

from __future__ import annotations

import pytest

from worker.states import JobState, said


def test_a_sentence_says_of_a_job_what_state_it_is_in() -> None:
    assert [said(state) for state in ("queued", "paused")] == ["is queued", "is paused"]
    assert (said("succeeded"), said("failed"), said("cancelled")) == ("has succeeded", "has failed", "was cancelled")
    assert len({said(state) for state in JobState}) == len(JobState)
    with pytest.raises(ValueError, match="asleep"):
        said("asleep")
