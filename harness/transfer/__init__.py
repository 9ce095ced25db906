"""The portal's side of nodes that do not see the store's folder: what they may fetch, and what they give back."""
