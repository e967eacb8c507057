"""What the paper measures, and more: jobs, rows, and the tables and figures made of them."""
