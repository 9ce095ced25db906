"""Settings of a portal that is looked at in a browser: the product's own, but a password is checked at once.

The product's hasher takes some tenths of a second of the processor, on purpose; people sign in before each test.
"""

from harness.settings import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
