"""The private methods by paper or family, and their twins and floors without privacy."""
