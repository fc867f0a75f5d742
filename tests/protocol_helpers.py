"""What a party of a protocol has received."""


def received(transcript, party):
    """The kept messages to a party."""
    return [message for message in transcript if message.receiver == party]
