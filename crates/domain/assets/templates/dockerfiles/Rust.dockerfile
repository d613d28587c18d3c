FROM rust:1-slim AS build
WORKDIR /src
COPY . .
# Everything that can be run ends up below /out/bin.
RUN cargo install --locked --path . --root /out

FROM debian:stable-slim
COPY --from=build /out/bin/ /usr/local/bin/
USER nobody
# Put the name of the program here.
CMD ["app"]
