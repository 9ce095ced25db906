"""The object store behind the store's folder (`DLH_S3_URL`): its copy, and the way past the portal for nodes.

The folder stays the truth that pages and control read; see docs/decisions/025. Without the setting it is not used.
"""
