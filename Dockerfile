# The environment of ./dev as an image: the same packages.txt on the same suite.
#   docker build -t ctxgen-dev .
#   docker run --rm -it -v "$PWD:$PWD" -w "$PWD" ctxgen-dev ./dev test
FROM debian:forky
COPY packages.txt /usr/local/share/ctxgen/packages.txt
RUN apt-get -o Acquire::Check-Valid-Until=false update \
    && sed -e 's/#.*//' -e 's/[[:space:]?]//g' -e '/^$/d' /usr/local/share/ctxgen/packages.txt \
     | DEBIAN_FRONTEND=noninteractive xargs apt-get install -y --no-install-recommends \
    && rm -rf /var/lib/apt/lists/*
ENV CTXGEN_IN_ENV=1 LC_ALL=C.UTF-8
CMD ["bash"]
