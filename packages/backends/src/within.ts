/** Whether `path` is `place` or lies below it. */
export const isWithin = (path: string, place: string): boolean =>
  path === place || path.startsWith(place === "/" ? "/" : `${place}/`)
