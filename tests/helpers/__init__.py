"""What several tests share: `from tests.helpers import machines`."""
