# The environment of ./dev as an image: the same packages.txt on the same suite (--build-arg PACKAGES=NAME: with packages-NAME.txt too).
#   docker build -t ctxgen-dev .
#   docker run --rm -it -v "$PWD:$PWD" -w "$PWD" ctxgen-dev ./dev test
FROM debian:forky
ARG PACKAGES=
COPY packages*.txt /usr/local/share/ctxgen/
RUN apt-get -o Acquire::Check-Valid-Until=false update \
    && sed -e 's/#.*//' -e 's/[[:space:]?]//g' -e '/^$/d' /usr/local/share/ctxgen/packages.txt ${PACKAGES:+/usr/local/share/ctxgen/packages-$PACKAGES.txt} \
     | DEBIAN_FRONTEND=noninteractive xargs apt-get install -y --no-install-recommends \
    && rm -rf /var/lib/apt/lists/*
ENV CTXGEN_ENV_PACKAGES=$PACKAGES CTXGEN_IN_ENV=1 LC_ALL=C.UTF-8
CMD ["bash"]
