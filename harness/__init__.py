"""Control plane: the Django project, its apps, the API, the client and the local stack."""
