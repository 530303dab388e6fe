"""How far labels are apart."""
