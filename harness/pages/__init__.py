"""The web pages: views translate requests into one service or selector call; no models here."""
