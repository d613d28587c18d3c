"use strict";
window.onload = () => {
  const session = fetch("/-/session", { headers: { Accept: "application/json" } })
    .then((answer) => (answer.ok ? answer.json() : null))
    .catch(() => null);
  window.ui = SwaggerUIBundle({
    url: "/api/v4/openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    docExpansion: "none",
    filter: true,
    tryItOutEnabled: true,
    displayRequestDuration: true,
    persistAuthorization: true,
    validatorUrl: null,
    requestInterceptor: async (request) => {
      const known = await session;
      if (known && known.csrf_token) request.headers["X-CSRF-Token"] = known.csrf_token;
      return request;
    },
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl],
    layout: "BaseLayout",
  });
};
