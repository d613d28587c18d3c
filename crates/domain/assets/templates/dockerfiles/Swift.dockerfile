FROM swift:6.0 AS build
WORKDIR /src

COPY Package.swift Package.resolved* ./
RUN swift package resolve

COPY . .
RUN swift build --configuration release --static-swift-stdlib \
    && mkdir /out && cp "$(swift build --configuration release --show-bin-path)/App" /out/

FROM debian:stable-slim
COPY --from=build /out/App /usr/local/bin/app
USER nobody
ENTRYPOINT ["app"]
