"""Sends one e-mail by the installation's mail server."""

from __future__ import annotations

import smtplib
import ssl
from typing import Any

from django.core.mail import EmailMessage, get_connection

from harness.env_smtp import Security, SmtpSettings
from harness.notify.trouble import DeliveryRefused, DeliveryTrouble

WAIT_S = 10
"""For each answer before the message is handed over."""
TAKEN_S = 45
"""For each answer to the message itself: a server that searches it for harm is slow to say that it has taken it, and
who gives up before sends it twice."""
_REFUSED = 500
"""From here on a mail server's answer is final (RFC 5321)."""


def mail_send(smtp: SmtpSettings, *, to: str, subject: str, text: str, message_id: str) -> None:
    """Send once. Raises `DeliveryRefused` where it is of no use to try again, `DeliveryTrouble` where it may be."""
    connection: Any = get_connection(
        "django.core.mail.backends.smtp.EmailBackend",
        host=smtp.host,
        port=smtp.port,
        username=smtp.user,
        password=smtp.password,
        use_tls=smtp.security == Security.STARTTLS,
        use_ssl=smtp.security == Security.TLS,
        timeout=WAIT_S,
    )
    headers = {"Message-ID": message_id, "Auto-Submitted": "auto-generated"}
    message = EmailMessage(subject, text, smtp.sender, [to], connection=connection, headers=headers)
    try:
        with connection:
            connection.connection.sock.settimeout(TAKEN_S)
            message.send()
            connection.connection.sock.settimeout(WAIT_S)  # it was taken: no need to wait long for a goodbye
    except smtplib.SMTPRecipientsRefused as error:
        code = max((int(answer[0]) for answer in error.recipients.values()), default=0)
        raise _told(code, "the address") from error
    except smtplib.SMTPAuthenticationError as error:
        raise DeliveryTrouble("The mail server refused this installation's login; tell an admin.") from error
    except smtplib.SMTPNotSupportedError as error:
        raise DeliveryRefused("The mail server does not offer the security or login that is set.") from error
    except ssl.SSLCertVerificationError as error:
        raise DeliveryTrouble("The mail server's certificate is not valid; tell an admin.") from error
    except smtplib.SMTPResponseException as error:
        raise _told(error.smtp_code, "the message") from error
    except (OSError, smtplib.SMTPException) as error:
        raise DeliveryTrouble("The mail server cannot be reached.") from error
    except ValueError as error:  # an address or a name that makes no header
        raise DeliveryRefused("The e-mail address cannot be used.") from error


def _told(code: int, what: str) -> DeliveryTrouble:
    kind = DeliveryRefused if code >= _REFUSED else DeliveryTrouble
    return kind(f"The mail server refused {what} ({code}).")
