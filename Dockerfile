# Build Leveret: `docker build -t leveret:0.1.0 .`, or with broker and dashboards `docker compose up`.
# The tags are exact; with access to a registry pin the digests too: `docker buildx imagetools inspect NAME`.

FROM python:3.11.13-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# pip checks the libraries by their hashes, those of [tracing] too. They come before the sources, so that they are built once.
COPY requirements-otel.lock requirements-dev.lock ./
RUN python -m venv /opt/leveret \
    && /opt/leveret/bin/pip install --require-hashes --only-binary :all: -r requirements-otel.lock
# pip also checks the tool that builds our own package, by its lines of the development lock.
RUN awk '/^[a-z]/ { wanted = /^setuptools==/ } wanted' requirements-dev.lock > build.lock \
    && python -m venv /build \
    && /build/bin/pip install --require-hashes --only-binary :all: -r build.lock
COPY pyproject.toml README.md LICENSE ./
COPY consumer consumer
COPY topology topology
COPY metrics metrics
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/leveret/bin/pip install --no-deps --no-index /wheels/leveret-*.whl \
    && /opt/leveret/bin/python -m pip uninstall --yes pip \
    && /opt/leveret/bin/python -m compileall -q /opt/leveret/lib

FROM python:3.11.13-slim-bookworm
RUN groupadd --system --gid 10001 leveret \
    && useradd --system --uid 10001 --gid leveret --home-dir /var/lib/leveret --no-create-home \
        --shell /usr/sbin/nologin leveret \
    && install -d -o leveret -g leveret -m 0700 /var/lib/leveret \
    && for name in rabbitmq leveret publisher grafana sample; do \
        install -d -o leveret -g leveret -m 0755 "/setup/$name"; done
COPY --from=build /opt/leveret /opt/leveret
COPY deploy/compose_setup.py /opt/leveret/compose_setup.py
# On any address but loopback the port serves health and metrics only.
ENV PATH=/opt/leveret/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    LEVERET_HOME=/var/lib/leveret LEVERET_LISTEN=0.0.0.0:8080
USER leveret
WORKDIR /var/lib/leveret
EXPOSE 8080
STOPSIGNAL SIGTERM
# http.client ignores a proxy that environment variables may name.
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8080, timeout=5); c.request('GET', '/readyz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["leveret"]
CMD ["run"]
