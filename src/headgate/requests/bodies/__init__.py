"""What is read of a request's body, and changed in it: the model, the prompt, and a few options."""
