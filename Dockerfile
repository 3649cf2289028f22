# An image with kolo's library and tool, for a user without root rights.
#   docker build -t kolo .
#   docker build -t kolo-train --build-arg PACKAGES= .     with the training layer, over libtorch
#   docker build -t kolo-dev --target build .              with compilers and headers, to build programs in
FROM debian:12-slim AS build
ARG PACKAGES=--core
ENV DEBIAN_FRONTEND=noninteractive
WORKDIR /kolo
# What the build needs changes less often than the sources: a layer of its own.
COPY scripts/install-dependencies scripts/
RUN scripts/install-dependencies --for build,package
COPY . .
RUN scripts/make-packages $PACKAGES --output /packages \
    && apt-get install -q -y --no-install-recommends /packages/*.deb \
    && rm -rf build

FROM build AS packages
RUN rm /packages/*-dev_*.deb

FROM debian:12-slim
COPY --from=packages /packages /packages
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends /packages/*.deb \
    && rm -rf /packages /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 kolo
# A number, so that Kubernetes can see that it is not root (runAsNonRoot).
USER 10001
WORKDIR /home/kolo
CMD ["kolo", "--help"]
