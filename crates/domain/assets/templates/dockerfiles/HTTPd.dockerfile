# Serves the files of the directory `public`.
FROM httpd:2.4-alpine

COPY public/ /usr/local/apache2/htdocs/

# A configuration of your own:
# COPY httpd.conf /usr/local/apache2/conf/httpd.conf

EXPOSE 80
