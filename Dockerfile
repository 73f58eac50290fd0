# syntax=docker/dockerfile:1

FROM rust:1-slim-trixie AS builder
RUN apt-get update \
    && apt-get install -y --no-install-recommends cmake make gcc g++ libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# The target folder is a cache and not part of the layer, hence the copy.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --profile dist --locked --bin warmgate \
    && cp target/dist/warmgate /warmgate

FROM debian:trixie-slim
# Roots for engines behind https.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin warmgate
COPY --from=builder /warmgate /usr/local/bin/warmgate
USER 10001
# Clients; operators, if the configuration says `admin: {listen: 0.0.0.0:9090}`.
EXPOSE 8080 9090
# Orchestrators ask /livez and /readyz on the admin address.
HEALTHCHECK NONE
STOPSIGNAL SIGTERM
ENTRYPOINT ["warmgate"]
CMD ["serve", "--config", "/etc/warmgate/warmgate.yaml"]
