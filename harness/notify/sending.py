"""Control's part: takes messages that are due, one at a time, sends them, and notes what became of them.

Each is taken by compare-and-set before it is sent, so two control processes never send one message both. One that was
being sent when its process died is not sent again: it may have arrived.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils import timezone

from harness.accounts.time_zone import time_zone_of
from harness.beside import Beside
from harness.notify.mail import mail_send
from harness.notify.messages import SIGNATURE_HEADER, Message, mail_subject, mail_text, signature, webhook_body
from harness.notify.models import Channel, Delivery, DeliveryState, Kind, NotifyChoice
from harness.notify.outbox import channels_of, may_be_told
from harness.notify.services import webhook_secret
from harness.notify.trouble import DeliveryRefused, DeliveryTrouble
from harness.notify.webhook import webhook_post
from harness.release import release

THREADS = 4
RETRY_AFTER_S = (30, 120, 600, 3600)
"""After the first try, the second, ...; then it is given up."""
TOO_LATE = timedelta(hours=24)
"""Nobody wants to be told any more, by a restored backup least of all."""
INTERRUPTED_AFTER = timedelta(minutes=10)
"""Longer than any try takes, one that waits for each of a mail server's answers as long as it may, too."""
KEPT = timedelta(days=30)
_log = logging.getLogger(__name__)


def deliveries_begin() -> None:
    """Have what is due sent by a thread of its own, unless there are enough: receivers may be slow, control may not."""
    if _due().exists():
        _sending.begin()


def _deliveries_send() -> None:
    while delivery_next():
        continue


_sending = Beside("notify", _deliveries_send, at_most=THREADS)


def delivery_next() -> bool:
    """Send one message that is due; whether there was one."""
    delivery = _claim()
    if delivery is None:
        return False
    try:
        _send(delivery)
    except DeliveryTrouble as error:
        _failed(delivery, error)
    except Exception:
        _log.exception("message %s could not be sent", delivery.pk)
        _failed(delivery, DeliveryRefused("It could not be sent; control's log says why."))
    else:
        _note(delivery, DeliveryState.DELIVERED)
    return True


def _due() -> QuerySet[Delivery]:
    """Of one person and channel one at a time: who waits for a dead receiver keeps only their own messages waiting.

    Those that were tried least come first: one that its receiver never takes holds up no other.
    """
    sending = Delivery.objects.filter(user=OuterRef("user"), channel=OuterRef("channel"), state=DeliveryState.SENDING)
    rows = Delivery.objects.filter(state=DeliveryState.WAITING, due_at__lte=timezone.now())
    return rows.exclude(Exists(sending)).order_by("tries", "due_at", "created_at", "pk")


def _claim() -> Delivery | None:
    while (found := _due().values_list("pk", flat=True).first()) is not None:
        taken = Delivery.objects.filter(pk=found, state=DeliveryState.WAITING).update(
            state=DeliveryState.SENDING, claimed_at=timezone.now(), tries=F("tries") + 1
        )
        if taken:
            return Delivery.objects.select_related("user", "project").get(pk=found)
    return None


def _send(delivery: Delivery) -> None:
    """Raises `DeliveryTrouble`."""
    choice = NotifyChoice.objects.select_related("user").filter(pk=delivery.user_id).first()
    if choice is None or Channel(delivery.channel) not in channels_of(choice):
        raise DeliveryRefused("It was turned off before it could be sent.")
    if not may_be_told(choice.user, delivery.project):
        raise DeliveryRefused("The project was no longer visible to you when it was to be sent.")
    if timezone.now() - delivery.created_at > TOO_LATE:
        raise DeliveryRefused("It could not be sent within a day.")
    message = Message(**delivery.body)
    if delivery.channel == Channel.EMAIL:
        _mail(delivery, choice, message)
    else:
        _post(delivery, choice, message)


def _mail(delivery: Delivery, choice: NotifyChoice, message: Message) -> None:
    # One name for every try: a mail program shows a message that came twice once.
    smtp = settings.SMTP
    assert smtp is not None  # noqa: S101 - `channels_of` has asked
    sender_host = urlsplit(settings.PORTAL_URL).hostname or "localhost"
    mail_send(
        smtp,
        to=choice.user.email,
        subject=mail_subject(message),
        text=mail_text(message, f"{settings.PORTAL_URL}/account/notifications/", time_zone_of(choice.user)),
        message_id=f"<{delivery.pk}@{sender_host}>",
    )


def _post(delivery: Delivery, choice: NotifyChoice, message: Message) -> None:
    at = delivery.created_at.isoformat(timespec="seconds")
    body = webhook_body(message, delivery_id=delivery.pk, kind=delivery.kind, at=at, url=choice.webhook_url)
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": f"deep-learning-harness/{release()}",
        SIGNATURE_HEADER: signature(body, secret=webhook_secret(choice), time_s=int(time.time())),
    }
    webhook_post(choice.webhook_url, body, headers, networks=settings.WEBHOOK_NETWORKS, http_too=settings.WEBHOOK_HTTP)


def _failed(delivery: Delivery, error: DeliveryTrouble) -> None:
    """Try again later, and the person's other messages by this channel not before; or give it up."""
    final = isinstance(error, DeliveryRefused) or delivery.kind == Kind.TEST or delivery.tries > len(RETRY_AFTER_S)
    if final:
        _note(delivery, DeliveryState.FAILED, str(error))
        return
    due_at = timezone.now() + timedelta(seconds=RETRY_AFTER_S[delivery.tries - 1])
    _mine(delivery).update(state=DeliveryState.WAITING, due_at=due_at, problem=str(error)[:300])
    others = Delivery.objects.filter(user=delivery.user_id, channel=delivery.channel, state=DeliveryState.WAITING)
    others.exclude(kind=Kind.TEST).filter(due_at__lt=due_at).update(due_at=due_at)


def _note(delivery: Delivery, state: DeliveryState, problem: str = "") -> None:
    _mine(delivery).update(state=state, ended_at=timezone.now(), problem=problem[:300])


def _mine(delivery: Delivery) -> QuerySet[Delivery]:
    return Delivery.objects.filter(pk=delivery.pk, state=DeliveryState.SENDING, tries=delivery.tries)


def deliveries_tidy() -> None:
    """Tell of those whose sending was interrupted that it was, and forget what is long past."""
    now = timezone.now()
    Delivery.objects.filter(state=DeliveryState.SENDING, claimed_at__lt=now - INTERRUPTED_AFTER).update(
        state=DeliveryState.FAILED,
        ended_at=now,
        problem="Sending was interrupted, so it may or may not have arrived; it is not sent twice.",
    )
    Delivery.objects.filter(ended_at__lt=now - KEPT).delete()
