FROM composer:2 AS packages
WORKDIR /app
COPY composer.json composer.lock* ./
RUN composer install --no-dev --no-scripts --prefer-dist --no-interaction

FROM php:8-apache
# Extensions that the project needs:
# RUN docker-php-ext-install pdo_mysql

WORKDIR /var/www/html
COPY . .
COPY --from=packages /app/vendor ./vendor
EXPOSE 80
