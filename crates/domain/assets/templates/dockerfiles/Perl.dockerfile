FROM perl:5-slim
WORKDIR /app

COPY cpanfile ./
RUN cpanm --notest --installdeps .

COPY . .

USER nobody
CMD ["perl", "app.pl"]
