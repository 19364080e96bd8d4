const LOOPBACK_NAME = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i

/**
 * Why a request is refused, or undefined. A client that may use a terminal may run anything, and any site's page may
 * send requests to this port from a person's browser. So the browser must have asked for a loopback name, which no site
 * can have (a site's name can be made to lead here, but then the host is the site's name), and only our own page may
 * open a terminal.
 */
export const refusalOf = ({
  host,
  origin,
}: {
  readonly host: string | undefined
  readonly origin: string | undefined
}): string | undefined => {
  if (host === undefined || !LOOPBACK_NAME.test(host)) return "it is served on loopback names only"
  // Only browsers send an origin, and they always do when a page opens a WebSocket.
  if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`)
    return "it is for its own page only"
  return undefined
}
