"""What programs and clients write into messages forges no lines of the log."""

from __future__ import annotations

import io
import logging
import logging.config
import os
import re
import subprocess
import sys

import pytest
from django.conf import settings

FORGED = "broken\n2026-01-01 00:00:00,000 INFO harness.jobs.states job x: done\x1b[2K\r\u2028\u202e\x85"


@pytest.fixture
def lines(monkeypatch):
    """Have something logged as our processes do; the lines of it."""

    def written(log):
        config = {**settings.LOGGING, "root": {}, "loggers": {"told": {"handlers": ["stderr"], "propagate": False}}}
        logging.config.dictConfig({**config, "incremental": False})
        out = io.StringIO()
        logger = logging.getLogger("told")
        logger.setLevel(logging.INFO)
        monkeypatch.setattr(logger.handlers[0], "stream", out)
        log(logger)
        logger.handlers.clear()
        return out.getvalue().removesuffix("\n").split("\n")

    return written


def test_a_message_is_one_line_whatever_a_program_put_into_it(lines):
    (line,) = lines(lambda log: log.info("job %s: %s", "a", FORGED))
    assert "INFO told job a: broken\\n2026-01-01" in line and line.isprintable()
    assert "done\\x1b[2K\\r\\u2028\\u202e\\x85" in line


def test_of_a_traceback_no_line_begins_as_one_of_the_log_and_its_lines_stay_apart(lines):
    def fail(log):
        try:
            raise ValueError(FORGED)
        except ValueError as error:
            log.error("request %s", "a", exc_info=error)

    first, *others = lines(fail)
    assert first.endswith("ERROR told request a")
    assert len(others) >= 4 and others[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") and line.isprintable() for line in others)


def test_ordinary_text_is_written_as_it_is(lines):
    (line,) = lines(lambda log: log.info("Zeitüberschreitung: 5 °C, C:\\temp, 名前, 1\u00a0GiB"))
    assert line.endswith("Zeitüberschreitung: 5 °C, C:\\temp, 名前, 1\u00a0GiB")


def test_a_request_has_its_time_and_obeys_the_level(capfd):
    config = """
import logging.config
from uvicorn.config import LOGGING_CONFIG
from harness import settings
logging.config.dictConfig(LOGGING_CONFIG)
logging.config.dictConfig(settings.LOGGING)
log = logging.getLogger("uvicorn.access")
log.info('%s - "%s %s HTTP/%s" %d', "127.0.0.1:5", "GET", "/jobs/", "1.1", 200)
"""
    for level, count in (("INFO", 1), ("WARNING", 0)):
        subprocess.run([sys.executable, "-c", config], check=True, env={**os.environ, "DLH_LOG_LEVEL": level})
        out, err = capfd.readouterr()
        found = re.findall(
            r'^\d{4}-\d\d-\d\d [\d:,]+ INFO uvicorn.access 127.0.0.1:5 - "GET /jobs/ HTTP/1.1" 200$', err, re.M
        )
        assert (out, len(found), len(err.splitlines())) == ("", count, count)
