"""What several folders of tests share. It imports no tests."""
