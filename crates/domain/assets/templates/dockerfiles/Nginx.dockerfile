# Serves the files of the directory `public`.
FROM nginx:stable-alpine

COPY public/ /usr/share/nginx/html/

# A configuration of your own:
# COPY nginx.conf /etc/nginx/conf.d/default.conf

EXPOSE 80
