//! The built-in replies in French.

use super::LanguageReplies;

pub(super) const REPLIES: LanguageReplies = LanguageReplies {
    of_buckets: [
        "Cette conversation ne peut pas continuer. Veuillez en commencer une nouvelle.",
        "Je n'ai pas réussi à répondre. Réessayez dans un instant.",
        "Cette demande n'a pas pu être traitée : {diagnostic}. Veuillez modifier votre message et réessayer.",
    ],
    not_the_message: "Cette demande n'a pas pu être traitée : {diagnostic}.",
    of_categories: [
        "L'assistant de cette conversation n'est pas disponible : {diagnostic}.",
        "Cette réponse demandait plus que ce qui est permis : {diagnostic}.",
        "Une décision doit d'abord être prise ici : {diagnostic}.",
        "Cette conversation n'existe pas : {diagnostic}.",
        "L'assistant est en cours de redémarrage. Réessayez dans un instant.",
        "Personne n'a décidé à temps : {diagnostic}.",
        "Ce message n'a pas reçu de réponse à temps : {diagnostic}. Renvoyez-le si vous souhaitez encore une réponse.",
        "Arrêté : {diagnostic}.",
        "L'assistant a échoué chaque fois qu'il a essayé de répondre : {diagnostic}. Il ne réessaiera pas.",
        "L'assistant n'a pas accès à son modèle : {diagnostic}. La personne qui l'administre doit corriger cela.",
        "Le modèle de l'assistant n'existe pas : {diagnostic}. La personne qui l'administre doit corriger cela.",
        "Le modèle a donné une réponse inutilisable : {diagnostic}.",
        "Le modèle est en cours de chargement. Réessayez dans un instant.",
        "Le modèle est occupé. Réessayez dans un instant.",
        "Le modèle est injoignable pour le moment. Réessayez dans un instant.",
        "Le modèle a donné une réponse inutilisable : {diagnostic}.",
    ],
};
