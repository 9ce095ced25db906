from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from harness.notify.messages import Message, mail_subject, mail_text, one_line, signature, webhook_body

MESSAGE = Message(
    title="<!channel> & @all\r\nBcc: x@example.org finished",
    detail="It ran for 3 min.",
    url="https://portal.example/jobs/abc/",
    project={"slug": "birds", "name": "Birds"},
    job={"id": "abc", "name": "n", "state": "succeeded", "owner": "ada"},
)


def test_names_that_people_give_call_nobody_in_a_chat_and_make_no_header():
    told = json.loads(webhook_body(MESSAGE, delivery_id="d1", kind="job_finished", at="2026-01-01T00:00:00+00:00"))
    assert "<" not in told["text"] and "@all" not in told["text"] and "\n" not in told["text"]
    assert told["text"].startswith("Birds: &lt;!channel&gt; &amp; @") and told["text"].endswith(MESSAGE.url)
    assert (told["id"], told["event"], told["job"]["id"], told["project"]["slug"]) == (
        "d1", "job_finished", "abc", "birds",
    )  # fmt: skip
    assert mail_subject(MESSAGE) == "[Birds] <!channel> & @all Bcc: x@example.org finished"
    assert len(mail_subject(Message(title="x" * 999, url=""))) == 200


def test_names_stay_what_they_are_where_a_chat_reads_markdown():
    message = Message(title="[a](http://b) *x* my_net `c` ![d](e) <f> failed", url="https://portal.example/jobs/a_b/")
    hook = "https://chat.example.org/hooks/" + "a1b2c3d4e5f6g7h8i9j0k1l2m3"

    def text(url):
        return json.loads(webhook_body(message, delivery_id="d", kind="k", at="", url=url))["text"]

    told = r"\[a\]\(http://~b\) \*x\* my\_net \`c\` \!\[d\]\(e\) &lt;f&gt; failed https://portal.example/jobs/a_b/"
    told = told.replace("~", "\u200b")
    assert text(hook) == text(hook + "/") == told
    for other in ("https://hooks.slack.com/services/T0/B0/XXXX", "https://example.org/hooks/own"):
        assert (
            text(other)
            == "[a](http://\u200bb) *x* my_net `c` ![d](e) &lt;f&gt; failed https://portal.example/jobs/a_b/"
        )


def test_an_address_in_a_name_that_people_give_becomes_no_link_in_a_chat():
    message = Message(
        title="https://evil.example/my_net WWW.evil.example failed", url="https://portal.example/jobs/a_b/"
    )
    hooks = {"https://chat.example.org/hooks/" + 26 * "a": r"my\_net", "https://hooks.slack.com/a": "my_net"}
    for hook, name in hooks.items():
        text = json.loads(webhook_body(message, delivery_id="d", kind="k", at="", url=hook))["text"]
        told = f"https://~evil.example/{name} WWW.~evil.example failed https://portal.example/jobs/a_b/"
        assert text == told.replace("~", "\u200b")


def test_a_mail_says_what_where_and_how_to_turn_it_off():
    text = mail_text(MESSAGE, "https://portal.example/account/notifications/", UTC)
    assert MESSAGE.detail in text and MESSAGE.url in text and "account/notifications" in text
    assert "\n\nProject Birds, job of ada\n\n" in text
    assert "Project" not in mail_text(Message(title="n", url="u"), "", UTC)


def test_a_mail_gives_times_in_the_zone_of_its_reader_and_a_chat_in_utc():
    message = Message(title="n", detail="It has to start by 2030-01-31 18:00 UTC.", url="")
    assert "by 2030-01-31 19:00 CET." in mail_text(message, "", ZoneInfo("Europe/Berlin"))
    assert "by 2030-01-31 18:00 UTC." in json.loads(webhook_body(message, delivery_id="d", kind="k", at=""))["text"]


def test_a_receiver_can_check_the_signature():
    body = b'{"text":"x"}'
    stamp, digest = (part.partition("=")[2] for part in signature(body, secret="s", time_s=1700000000).split(","))
    assert stamp == "1700000000"
    assert hmac.compare_digest(digest, hmac.new(b"s", stamp.encode() + b"." + body, hashlib.sha256).hexdigest())
    assert signature(body, secret="s", time_s=1) != signature(body, secret="s", time_s=2)
    assert signature(body, secret="s", time_s=1) != signature(body, secret="t", time_s=1)


@pytest.mark.parametrize("text", ["a\u2028b", "a\x00b", "a\t\r\n b ", "a\u202eb"])
def test_a_line_is_one_line(text):
    assert one_line(text) == "a b"
