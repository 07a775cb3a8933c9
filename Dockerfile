# The image of marketd; docs/operations.md says how to build and run it.
#
# A digest, because a tag moves. `docker buildx imagetools inspect node:24-bookworm-slim` names the newest one.
ARG BASE_IMAGE=docker.io/library/node:24-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d

FROM ${BASE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY . .
RUN npm pack --pack-destination /tmp
# The second is for kafka:// sources; the first does not install it.
RUN npm install --global --prefix /opt/marketd /tmp/marketd-*.tgz @platformatic/kafka@1.22

FROM ${BASE_IMAGE}
COPY --from=build /opt/marketd /opt/marketd
ENV PATH=/opt/marketd/bin:$PATH \
    MARKETD_LISTEN=0.0.0.0:8080 \
    MARKETD_ADMIN_LISTEN=0.0.0.0:9090
USER 1000:1000
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
    CMD ["node", "-e", "fetch('http://127.0.0.1:9090/healthz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["marketd"]
CMD ["serve"]
