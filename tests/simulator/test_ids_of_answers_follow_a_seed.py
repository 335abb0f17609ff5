from headgate.simulator.server.generator import Ids

BODY = {"model": "tiny", "prompt": "a", "max_tokens": 1}


def test_equal_seeds_have_equal_ids_on_one_port():
    """One after the other, all of them other ones."""
    first, again = [[ids.next() for _ in range(3)] for ids in (Ids(7, 80), Ids(7, 80))]
    others = [ids.next() for ids in (Ids(8, 80), Ids(7, 81), Ids(None, 80), Ids(None, 80))]
    assert first == again
    assert len({*first, *others}) == 7


async def test_answers_have_them_unless_a_request_brings_its_own(serve):
    """In the order of the answers."""
    async with serve(id_seed=7) as server:
        ids = Ids(7, server.client.base_url.port)
        own = {"x-request-id": "mine"}
        told = [
            (await server.client.post("/v1/completions", json=BODY, headers=headers)).json()["id"]
            for headers in ({}, own, {})
        ]
    assert told == [f"cmpl-{ids.next()}", "cmpl-mine", f"cmpl-{ids.next()}"]
