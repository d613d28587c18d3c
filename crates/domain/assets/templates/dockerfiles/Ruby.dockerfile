FROM ruby:3-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /app

# What the project depends on changes less often than its code.
COPY Gemfile Gemfile.lock ./
RUN bundle config set --local without "development test" && bundle install

COPY . .

USER nobody
EXPOSE 3000
CMD ["bundle", "exec", "ruby", "app.rb"]
