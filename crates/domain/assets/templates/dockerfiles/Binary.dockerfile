# Holds one program that was built elsewhere and needs no libraries of the system.
FROM scratch

COPY app /app

# Files that the program reads at run time, such as certificates:
# COPY ca-certificates.crt /etc/ssl/certs/

USER 65534:65534
ENTRYPOINT ["/app"]
