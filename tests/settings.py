"""Settings of the tests: the product's own, in a temporary home, with no environment needed."""

import atexit
import os
import shutil
import tempfile

if not os.environ.get("DLH_TEST_HOME"):
    _home = tempfile.mkdtemp(prefix="dlh-test-")
    atexit.register(shutil.rmtree, _home, ignore_errors=True)
else:
    _home = os.environ["DLH_TEST_HOME"]
for _name in [name for name in os.environ if name.startswith("DLH_") and not name.startswith("DLH_TEST_")]:
    del os.environ[_name]
os.environ["DLH_HOME"] = _home
# Nobody listens there: a test that needs the broker asks for the fixture `broker`.
os.environ["DLH_REDIS_URL"] = "redis://127.0.0.1:1/0"
os.environ["DLH_DISK_RESERVE_MIB"] = "1"
# What is told of a device that nobody has measured rests on no file that is measured anew now and then.
os.environ["DLH_SHIPPED_CALIBRATIONS"] = "0"
if os.environ.get("DLH_TEST_DATABASE_URL"):  # a server of tests/postgres.py
    os.environ["DLH_DATABASE_URL"] = os.environ["DLH_TEST_DATABASE_URL"]

from harness.settings import *  # noqa: E402, F403
from harness.settings import DATABASES, HOME  # noqa: E402

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Each client of a test makes the middleware anew, and each middleware would look at every static file first.
SERVESTATIC_USE_FINDERS = SERVESTATIC_USE_STATIC_ROOT = False
if not os.environ.get("DLH_DATABASE_URL"):
    DATABASES["default"]["TEST"] = {"NAME": str(HOME / "test.sqlite3")}
