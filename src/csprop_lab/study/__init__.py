"""The study: jobs, rows, and the tables and figures that are made of them."""
