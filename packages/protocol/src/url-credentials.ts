/**
 * An http address without the user and the password that may stand in it. They end at the last `@` before the path: a
 * password may have an `@` of its own.
 */
export const withoutCredentials = (url: string): string =>
  url.replace(/^(https?:\/\/)[^/]*@/i, "$1")

/** A text without the users and passwords of all URLs in it, for messages. */
export const hideCredentials = (text: string): string => text.replaceAll(/:\/\/[^/\s]*@/g, "://")
