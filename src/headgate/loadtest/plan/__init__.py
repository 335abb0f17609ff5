"""What a load test sends, and when: requests in conversations, their times, and their texts. Pure."""
