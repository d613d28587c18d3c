FROM node:22-alpine
ENV NODE_ENV=production
WORKDIR /app

# What the project depends on changes less often than its code.
COPY package.json package-lock.json ./
RUN npm ci --omit=dev

COPY . .

USER node
EXPOSE 3000
CMD ["npm", "start"]
