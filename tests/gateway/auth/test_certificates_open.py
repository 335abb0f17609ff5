"""A verified client certificate is enough, if the settings say so."""

from headgate.gateway import listener


class Certificate:
    """What a listener with TLS knows of its client."""

    def __init__(self, *names):
        self.names = names


async def start(start_guarded, tenants_file, monkeypatch, *names, **settings):
    """Every connection has a certificate with these names."""
    peer = listener.Peer

    def with_certificate(*given):
        made = peer(*given)
        made.certificate = Certificate(*names)
        return made

    monkeypatch.setattr(listener, "Peer", with_certificate)
    path = tenants_file(team_a={"subjects": ["spiffe://cluster.local/ns/a/*"]}, team_b={"models": ["x"]})
    chosen = {"auth_tenants_file": str(path), "auth_mtls": True} | settings
    return await start_guarded(chosen)


async def test_a_name_belongs_to_a_tenant(start_guarded, tenants_file, monkeypatch):
    """The first that does."""
    names = ("spiffe://cluster.local/ns/a/sa/app", "team-b")
    gateway = await start(start_guarded, tenants_file, monkeypatch, *names)
    assert (await gateway.ask()).status == 200
    assert gateway.metric("headgate_gateway_tenant_requests_total", tenant="team-a") == 1


async def test_nobodys_name(start_guarded, tenants_file, monkeypatch):
    """Is forbidden, not unauthenticated."""
    gateway = await start(start_guarded, tenants_file, monkeypatch, "nobody")
    refused = await gateway.ask()
    assert (refused.status, refused.json["error"]["code"]) == (403, "unknown_tenant")


async def test_without_the_setting_it_counts_for_nothing(start_guarded, tenants_file, monkeypatch):
    """A key is needed then."""
    gateway = await start(start_guarded, tenants_file, monkeypatch, "team-a", auth_mtls=False)
    assert (await gateway.ask()).status == 401


async def test_a_key_goes_before_it(start_guarded, tenants_file, monkeypatch, keys_file):
    """A proxy may have a certificate, and its clients keys."""
    key = keys_file.make("team-b")
    gateway = await start(start_guarded, tenants_file, monkeypatch, "team-a")
    assert (await gateway.ask(x_api_key=key)).status == 403
    assert (await gateway.ask(x_api_key="wrong")).status == 200
