"""Settings, from the environment only. One file for every process; docs/operator-guide.md tells each."""

from __future__ import annotations

from urllib.parse import urlsplit

from csp.constants import NONCE, NONE, SELF

from harness.env import (
    DAYS_MAX,
    LOG_LEVELS,
    REPOSITORY,
    database,
    env_address,
    env_bool,
    env_choice,
    env_home,
    env_int,
    env_list,
    env_networks,
    env_path,
    env_text,
    event_streams,
    folder_make,
    s3_settings,
    second_factor,
    secret_read_or_make,
)
from harness.env_addresses import browser_origin, env_broker, host_written
from harness.env_oidc import oidc_settings
from harness.env_smtp import smtp_settings
from harness.store import StorePaths

BASE_DIR = REPOSITORY
HOME = env_home()
"""Everything this installation writes lies below."""
for _folder in ("secrets", "run", "logs"):
    folder_make(HOME / _folder, "DLH_HOME")

STORE = StorePaths(env_path("DLH_STORE", HOME / "store"))
S3 = s3_settings()
"""The object store behind the store's folder; None: there is none."""
SMTP = smtp_settings()
"""The mail server; None: no e-mail is sent."""
WEBHOOK_NETWORKS = env_networks("DLH_WEBHOOK_NETWORKS")
"""Private networks that webhooks may go to."""
WEBHOOK_HTTP = env_bool("DLH_WEBHOOK_HTTP")
"""Webhooks may go without TLS."""
FETCHES_AT_ONCE = env_int("DLH_FETCHES_AT_ONCE", 4)
"""Datasets that one control process fetches from web addresses at once; 0: none ever."""
FETCH_NETWORKS = env_networks("DLH_FETCH_NETWORKS")
"""Private networks that datasets may be fetched from."""
PORTAL_URL = env_address("DLH_PUBLIC_URL", "http://127.0.0.1:8000")
NODE_NAME = env_text("DLH_NODE_NAME")
REDIS_URL = env_broker("DLH_REDIS_URL", "redis://127.0.0.1:6379/0")
NODE_REDIS_URL = env_broker("DLH_NODE_REDIS_URL")
"""The broker as other machines reach it; empty: as `REDIS_URL`."""
DEBUG = env_bool("DLH_DEBUG")
SECRET_KEY = secret_read_or_make(HOME / "secrets" / "secret_key", given=env_text("DLH_SECRET_KEY"))

_portal = urlsplit(PORTAL_URL)
_https = _portal.scheme == "https"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", host_written(_portal.hostname or "")]
ALLOWED_HOSTS += map(host_written, env_list("DLH_ALLOWED_HOSTS"))
CSRF_TRUSTED_ORIGINS = [browser_origin(PORTAL_URL)]
BEHIND_PROXY = env_bool("DLH_BEHIND_PROXY")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_PROXY else None

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "csp",
    "ninja",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "harness.accounts",
    "harness.datasets",
    "harness.fetches",
    "harness.pool",
    "harness.jobs",
    "harness.storage",
    "harness.calibration",
    "harness.estimates",
    "harness.rates",
    "harness.notify",
    "harness.saved_views",
    "harness.pages",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "harness.compression.CompressionMiddleware",
    "csp.middleware.CSPMiddleware",
    "harness.trouble.ToldSessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "harness.accounts.middleware.SessionsMiddleware",
    "harness.pages.signin_wanted.SignInMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "harness.trouble.TroubleMiddleware",
]
ROOT_URLCONF = "harness.urls"
ASGI_APPLICATION = "harness.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

DATABASES = {"default": database(env_text("DLH_DATABASE_URL"), HOME / "db.sqlite3")}
EVENT_STREAMS = event_streams(several=bool(env_text("DLH_DATABASE_URL")))
"""Streams that new attempts are spread over by job: as many control processes read their events at once."""
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "accounts.User"
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login"
SECOND_FACTOR = second_factor()
"""Who must have a second factor: nobody, admins or all."""
OIDC = oidc_settings()
"""The identity provider that people sign in by; None: by password alone."""
OTP_TOTP_ISSUER = "Deep learning harness"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

# Browsers share cookies between ports of one host: two installations side by side must not log each other out.
_port = _portal.port or (443 if _https else 80)
SESSION_COOKIE_NAME = f"dlh_session_{_port}"
CSRF_COOKIE_NAME = f"dlh_csrf_{_port}"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 14 * 24 * 3600
SECURE_HSTS_SECONDS = 30 * 24 * 3600 if _https else 0
SECURE_SSL_REDIRECT = _https and SECURE_PROXY_SSL_HEADER is not None
"""Only behind a proxy that says which scheme was used: else a portal behind TLS would redirect for ever."""
SECURE_REDIRECT_EXEMPT = [r"^api/v1/node(/|$)", r"^api/v1/health$"]
"""Nodes in the portal's own private network ask it without the proxy in between; so does the doctor there."""
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
"""HSTS for other subdomains and the browsers' preload list are the domain owner's choice."""
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF, NONCE],
        # The code editor and the charts place their styles by script; styles cannot run code.
        "style-src": [SELF, "'unsafe-inline'"],
        "img-src": [SELF, "data:", "blob:"],
        "font-src": [SELF, "data:"],
        "connect-src": [SELF],
        "worker-src": [SELF, "blob:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

STATIC_URL = "/static/"
STATIC_ROOT = env_path("DLH_STATIC", BASE_DIR / "static")
STATICFILES_DIRS = [path for path in [BASE_DIR / "harness" / "frontend" / "dist"] if path.is_dir()]
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_AUTOREFRESH = DEBUG
SERVESTATIC_MAX_AGE = 60

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

DATA_UPLOAD_MAX_MEMORY_SIZE = env_int("DLH_BODY_MIB", 64, least=1) * 2**20
"""Of bodies that Django reads into memory; uploads are streamed and have their own limit."""
UPLOAD_LIMIT_BYTES = env_int("DLH_UPLOAD_LIMIT_GIB", 50) * 2**30
WEIGHTS_LIMIT_BYTES = env_int("DLH_WEIGHTS_LIMIT_GIB", 8) * 2**30
SHIPPED_CALIBRATIONS = env_bool("DLH_SHIPPED_CALIBRATIONS", default=True)
"""Cores that nobody has calibrated are estimated by a calibration that ships with the harness."""
PUBLIC_ACCURACY = env_bool("DLH_PUBLIC_ACCURACY", default=True)
"""Who is not signed in may read how good the estimates are, as means over jobs."""
DISK_RESERVE_BYTES = env_int("DLH_DISK_RESERVE_MIB", 1024) * 2**20
"""Free space that uploads and new runs must leave on the store's disk."""
STORAGE_QUOTA_BYTES = env_int("DLH_STORAGE_QUOTA_GIB", 0) * 2**30 or None
"""What a project may take of the store's disk where an admin said nothing else of it; None: as much as there is."""
JOB_DISK_BYTES = env_int("DLH_JOB_DISK_GIB", 20, least=1) * 2**30
STALL_S = env_int("DLH_STALL_S", 300, least=1)
"""A run that makes no progress for so long is ended."""
RETURN_WAIT_S = env_int("DLH_RETURN_WAIT_S", 7200, least=900, most=DAYS_MAX * 86_400)
"""So long a silent node is waited for that alone has what a run made which had ended with success."""
PROJECTS_MAX = env_int("DLH_PROJECTS_MAX", 10)
"""Projects that one person may create, admins of the installation as many as they like; 0: nobody else any."""
TRASH_DAYS = env_int("DLH_TRASH_DAYS", 14, most=DAYS_MAX)
HISTORY_DAYS = env_int("DLH_HISTORY_DAYS", 400, least=366, most=DAYS_MAX)
"""How long the use of the pool is known that belongs to no job any more; pages show the last year."""
PREDICTION_DAYS = env_int("DLH_PREDICTION_DAYS", 0, most=DAYS_MAX)
"""How long predictions are kept; 0: as long as their job."""
UPLOAD_EXPIRES_DAYS = env_int("DLH_UPLOAD_EXPIRES_DAYS", 7, least=1, most=DAYS_MAX)
UPLOADS_OPEN_MAX = env_int("DLH_UPLOADS_OPEN_MAX", 50)
"""Unfinished uploads that one person may have."""
LIVE_STREAMS_MAX = env_int("DLH_LIVE_STREAMS_MAX", 100)
"""Live streams (pages, `dlh watch`) that one person may have open at one portal process."""
PREDICTIONS_WAITING_MAX = env_int("DLH_PREDICTIONS_WAITING_MAX", 50)
"""Predictions that one person may have waiting for an answer."""
PREDICTION_LIMIT_BYTES = env_int("DLH_PREDICTION_MIB", 32) * 2**20

_THROUGH_ROOT = {"level": "NOTSET", "handlers": [], "propagate": True}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "harness.log_lines.PlainLines", "format": "%(asctime)s %(levelname)s %(name)s %(message)s"}
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "filters": {"without_codes": {"()": "harness.log_lines.WithoutCodes"}},
    "root": {"handlers": ["stderr"], "level": env_choice("DLH_LOG_LEVEL", LOG_LEVELS)},
    "loggers": {
        # The beat's ticks, several a second, would bury everything else.
        **{name: {"level": "WARNING"} for name in ("celery.beat", "celery.worker.strategy", "celery.app.trace")},
        # Its own handlers write lines without a time, whatever the level.
        **dict.fromkeys(("uvicorn", "uvicorn.error"), _THROUGH_ROOT),
        "uvicorn.access": {**_THROUGH_ROOT, "filters": ["without_codes"]},
        "httpx": {"level": "WARNING"},
    },
}
