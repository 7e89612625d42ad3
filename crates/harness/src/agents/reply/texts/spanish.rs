//! The built-in replies in Spanish.

use super::LanguageReplies;

pub(super) const REPLIES: LanguageReplies = LanguageReplies {
    of_buckets: [
        "Esta conversación no puede continuar. Empiece una nueva, por favor.",
        "No he podido responder. Inténtelo de nuevo en un momento.",
        "No se ha podido procesar la solicitud: {diagnostic}. Modifique su mensaje e inténtelo de nuevo, por favor.",
    ],
    not_the_message: "No se ha podido procesar la solicitud: {diagnostic}.",
    of_categories: [
        "El asistente de esta conversación no está disponible: {diagnostic}.",
        "Esta respuesta necesitaba más de lo permitido: {diagnostic}.",
        "Antes hay que decidir algo aquí: {diagnostic}.",
        "Esta conversación no existe: {diagnostic}.",
        "El asistente se está reiniciando. Inténtelo de nuevo en un momento.",
        "Nadie decidió a tiempo: {diagnostic}.",
        "Este mensaje no se respondió a tiempo: {diagnostic}. Envíelo otra vez si todavía quiere una respuesta.",
        "Detenido: {diagnostic}.",
        "El asistente ha fallado cada vez que intentó responder a esto: {diagnostic}. No volverá a intentarlo.",
        "El asistente no tiene acceso a su modelo: {diagnostic}. Quien lo administra debe corregirlo.",
        "El modelo del asistente no existe: {diagnostic}. Quien lo administra debe corregirlo.",
        "El modelo ha dado una respuesta que no se puede usar: {diagnostic}.",
        "El modelo se está cargando. Inténtelo de nuevo en un momento.",
        "El modelo está ocupado. Inténtelo de nuevo en un momento.",
        "No se puede acceder al modelo ahora mismo. Inténtelo de nuevo en un momento.",
        "El modelo ha dado una respuesta que no se puede usar: {diagnostic}.",
    ],
};
