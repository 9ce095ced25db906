"""`make demo ONCE=1`."""

import pytest

from tests.e2e.stack import END_TIMEOUT_S, processes_of, wait_for

pytestmark = pytest.mark.stack


def test_the_demo_trains_the_sample_prints_its_metrics_and_leaves_nothing(make_stack):
    demo = make_stack(command=("demo", "--once"))
    assert demo.process.wait(900) == 0, demo.text()
    text = demo.text()
    assert "accuracy" in text
    assert "http://127.0.0.1:" in text
    wait_for(lambda: not processes_of(demo.home), timeout_s=END_TIMEOUT_S, what="every process has ended")
